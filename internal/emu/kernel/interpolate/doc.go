// Package interpolate reads images between their elements: at the points of a grid, in boxes, and for
// deformable attention. Each has its gradients.
//
// It computes in float64, point by point. Resizing by a fixed factor reads the same places in every
// row and is in kernel (Resample).
//
//	sampler := interpolate.Grid{Mode: interpolate.Cubic, Padding: interpolate.Border}
//	err := sampler.Forward(out, image, grid)
package interpolate
