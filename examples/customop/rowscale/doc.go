// Package rowscale binds an operator of a custom operator package: aclnnRowScale of the header in this folder.
// aclnn/bind writes the Go function from the header:
//
//	go run github.com/goascend/cann/aclnn/bind -headers examples/customop/rowscale -package rowscale -out examples/customop/rowscale/zz_rowscale.go
//
// With the tag emu the operator is emulated, in emulation.go, so that programs that use it can be tested
// where there is no device. On a device the library of the package is searched in the folders of
// ASCEND_CUSTOM_OPP_PATH.
//
//	err := rowscale.RowScale(st, rowscale.RowScaleParams{X: x, Scale: scale, Factor: 1, Out: out})
package rowscale

//go:generate go run github.com/goascend/cann/aclnn/bind -headers . -package rowscale -out zz_rowscale.go
