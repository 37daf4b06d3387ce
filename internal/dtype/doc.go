// Package dtype names the element types (aclDataType) and storage formats (aclFormat) of CANN's
// tensors, and knows the size, the printed name and the class of each type. The public packages
// re-export it and the emulator uses it; a test compares the numbers with the ABI table. It
// converts no values: see package element.
package dtype
