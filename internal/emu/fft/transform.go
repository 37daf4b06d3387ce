package fft

import (
	"math"
	"math/cmplx"
)

// transformed returns the sums over j of x[j] exp(sign 2 pi i jk/n), by the smallest prime factor at a time
// (Cooley and Tukey, 1965).
func transformed(x []complex128, sign float64) []complex128 {
	n := len(x)
	roots := make([]complex128, n)
	for i := range roots {
		roots[i] = cmplx.Rect(1, sign*2*math.Pi*float64(i)/float64(n))
	}
	y := make([]complex128, n)
	divide(y, x, roots, 1)
	return y
}

// divide transforms the numbers of x that are stride apart; roots are those of the whole.
func divide(y, x, roots []complex128, stride int) {
	n := len(y)
	if n == 1 {
		y[0] = x[0]
		return
	}
	p := 2
	for p*p <= n && n%p != 0 {
		p++
	}
	if n%p != 0 {
		p = n
	}
	m := n / p
	for r := range p {
		divide(y[r*m:][:m], x[r*stride:], roots, stride*p)
	}
	// Number k of the result is the sum over r of part r's number k mod m, turned by rk.
	part := make([]complex128, p)
	for k := range m {
		for r := range p {
			part[r] = y[r*m+k]
		}
		for q := range p {
			at := k + q*m
			var sum complex128
			for r := range p {
				sum += part[r] * roots[r*at%n*stride]
			}
			y[at] = sum
		}
	}
}
