package emptycann

// static void nothing(void) {}
import "C"

// Cross calls a C function that does nothing: the least that any call of C costs.
func Cross() { C.nothing() }
