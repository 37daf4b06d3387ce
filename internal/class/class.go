package class

import "errors"

// The classes; package acl documents them.
var (
	ErrNotInstalled    = errors.New("CANN, its driver or a package of it is not installed")
	ErrNotSupported    = errors.New("not supported by this CANN version, driver or chip")
	ErrInvalidArgument = errors.New("invalid argument")
	ErrClosed          = errors.New("used after Close")
	ErrBusy            = errors.New("still in use")
	ErrTimeout         = errors.New("timeout")
	ErrPeerLost        = errors.New("a peer or the link to it was lost")
)

// Of makes an error for errors.Is that also matches a class.
func Of(class error, text string) error { return &member{class, text} }

type member struct {
	class error
	text  string
}

func (m *member) Error() string { return m.text }

// Unwrap gives the class to errors.Is.
func (m *member) Unwrap() error { return m.class }
