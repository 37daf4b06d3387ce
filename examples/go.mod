// The example programs need modules that the library does not, so they are a module of their own.
// go.work at the top lets commands name them from there: go run ./examples/trainstep.
module github.com/goascend/cann/examples

go 1.26.0

require (
	github.com/dlclark/regexp2 v1.12.0
	github.com/goascend/cann v0.1.0
	github.com/guptarohit/asciigraph v0.10.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/text v0.43.0
	pgregory.net/rapid v1.3.0
)

require (
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/goascend/cann => ../
