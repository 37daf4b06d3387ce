package hccl

import "bytes"

// Name returns the communicator's name in HCCL's logs (HcclGetCommName).
func (c *Comm) Name() (string, error) {
	var name [nameSize]byte
	if err := c.do(fnHcclGetCommName, func() error { return hcclGetCommName(c.context, c.handle, &name[0]) }); err != nil {
		return "", err
	}
	text, _, _ := bytes.Cut(name[:], []byte{0})
	return string(text), nil
}

// nameSize is the buffer size that HCCL requires for a name, including the terminating NUL.
const nameSize = 128
