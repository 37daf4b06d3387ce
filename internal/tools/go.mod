// The generator, the extractor of CANN's rules and the comparisons with other libraries are for those who change this
// repository, so that the users of the library need not download them. go.work joins this module and the library.
module github.com/goascend/cann/internal/tools

go 1.26.0

require (
	github.com/goascend/cann v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
