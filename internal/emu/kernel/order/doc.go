// Package order sorts, ranks, searches, counts and groups the elements of Go slices. Ties go to the lower index,
// and a NaN is larger than every number.
//
// It knows neither views nor threads: kernel splits views into rows and gives it one row at a
// time.
//
//	var s order.Sorter
//	places := make([]int64, 10)
//	s.Sort(places, keys) // the places of the ten smallest keys
package order
