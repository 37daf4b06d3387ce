// The reference data of the tests is a module of its own, so that programs that import
// cann do not download it.
module github.com/goascend/cann/testdata

go 1.26.0
