package abi

// Page is a public document about an operator.
type Page struct {
	Repository string // owner/name
	Commit     string
	Path       string
}
