// Package labels implements the steps of cross-entropy that depend on labels, for classes on one
// device (package ops) and classes split over several (ops/parallel).
//
//	match := labels.Match(s, ids, ignore, classes, true) // bool [rows, classes]
//	labels.Fill(s, logProb, labels.Match(s, ids, ignore, classes, false), aclnn.Float(0))
package labels
