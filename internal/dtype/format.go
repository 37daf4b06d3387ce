package dtype

import "fmt"

// Format is a storage format; its value is the C enum aclFormat.
type Format int32

// Storage formats, with the values of aclFormat.
const (
	FormatUndefined Format = -1
	NCHW            Format = 0
	NHWC            Format = 1
	ND              Format = 2
	NC1HWC0         Format = 3
	FractalZ        Format = 4
	NC1HWC0C04      Format = 12
	HWCN            Format = 16
	NDHWC           Format = 27
	FractalNZ       Format = 29
	NCDHW           Format = 30
	NDC1HWC0        Format = 32
	FractalZ3D      Format = 33
	NC              Format = 35
	NCL             Format = 47
	FractalNZC016   Format = 50
	FractalNZC032   Format = 51
	FractalNZC02    Format = 52
	FractalNZC04    Format = 53
	FractalNZC08    Format = 54
)

var formatNames = map[Format]string{
	FormatUndefined: "UNDEFINED", NCHW: "NCHW", NHWC: "NHWC", ND: "ND", NC1HWC0: "NC1HWC0", FractalZ: "FRACTAL_Z",
	NC1HWC0C04: "NC1HWC0_C04", HWCN: "HWCN", NDHWC: "NDHWC", FractalNZ: "FRACTAL_NZ", NCDHW: "NCDHW",
	NDC1HWC0: "NDC1HWC0", FractalZ3D: "FRACTAL_Z_3D", NC: "NC", NCL: "NCL", FractalNZC016: "FRACTAL_NZ_C0_16",
	FractalNZC032: "FRACTAL_NZ_C0_32", FractalNZC02: "FRACTAL_NZ_C0_2", FractalNZC04: "FRACTAL_NZ_C0_4",
	FractalNZC08: "FRACTAL_NZ_C0_8",
}

// String returns CANN's name without its prefix, such as "FRACTAL_NZ".
func (f Format) String() string {
	if s, ok := formatNames[f]; ok {
		return s
	}
	return fmt.Sprintf("format(%d)", int32(f))
}

// Valid reports whether f is a format of CANN other than FormatUndefined.
func (f Format) Valid() bool {
	_, ok := formatNames[f]
	return ok && f != FormatUndefined
}

// ParseFormat returns the format with a name as String returns it.
func ParseFormat(name string) (Format, error) {
	for f, s := range formatNames {
		if s == name {
			return f, nil
		}
	}
	return FormatUndefined, fmt.Errorf("there is no format %q", name)
}
