// It compares the emulator with other libraries, which the users of this library need not download.
module github.com/goascend/cann/internal/testing/rivals

go 1.26.0

require (
	github.com/goascend/cann v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/goascend/cann => ../../..
