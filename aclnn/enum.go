package aclnn

import "strconv"

// unnamed is the text of a value of an enumeration that has no constant.
func unnamed(enum string, v int64) string { return enum + "(" + strconv.FormatInt(v, 10) + ")" }
