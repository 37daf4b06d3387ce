// Package dump emulates CANN's dumps: the tensors of each operator (aclmdlSetDump), of operators that
// fail (dump_scene, acldumpSaveExceptionInfo), and descriptions of calls (aclopStartDumpArgs).
//
//	d := dump.New(runtime)
//	for name, f := range d.Functions() { … } // C name -> function over 64-bit words
//	if d.Wanted() {
//		err := d.Write(stream, "aclnnAbs", tensors, failed)
//	}
//
// The files have CANN's names and folders and are in the safetensors format. Package nn passes the
// tensors of the calls that it runs; this package knows no operator.
package dump
