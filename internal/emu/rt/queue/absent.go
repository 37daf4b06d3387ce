package queue

import "github.com/goascend/cann/internal/emu/rt"

// Passing buffers by reference, and queues between processes, need a program that runs on the
// device itself, which only the chips of the 310 series support.

// lacks refuses a function that this chip does not have.
func lacks(t *rt.Thread, function string) rt.Code {
	return t.Fail(unsupported, "EH0005: %s: this chip has it not; use acltdtEnqueueData and acltdtDequeueData", function)
}

func acltdtEnqueue(t *rt.Thread, _ uint32, _ rt.Handle, _ int32) rt.Code {
	return lacks(t, "acltdtEnqueue")
}
func acltdtDequeue(t *rt.Thread, _ uint32, _ *rt.Handle, _ int32) rt.Code {
	return lacks(t, "acltdtDequeue")
}
func acltdtGrantQueue(t *rt.Thread, _ uint32, _ int32, _ uint32, _ int32) rt.Code {
	return lacks(t, "acltdtGrantQueue")
}
func acltdtAttachQueue(t *rt.Thread, _ uint32, _ int32, _ *uint32) rt.Code {
	return lacks(t, "acltdtAttachQueue")
}
func acltdtAllocBuf(t *rt.Thread, _ uint64, _ uint32, _ *rt.Handle) rt.Code {
	return lacks(t, "acltdtAllocBuf")
}
func acltdtFreeBuf(t *rt.Thread, _ rt.Handle) rt.Code { return lacks(t, "acltdtFreeBuf") }
func acltdtGetBufData(t *rt.Thread, _ rt.Handle, _ *rt.Address, _ *uint64) rt.Code {
	return lacks(t, "acltdtGetBufData")
}
func acltdtSetBufDataLen(t *rt.Thread, _ rt.Handle, _ uint64) rt.Code {
	return lacks(t, "acltdtSetBufDataLen")
}
func acltdtGetBufDataLen(t *rt.Thread, _ rt.Handle, _ *uint64) rt.Code {
	return lacks(t, "acltdtGetBufDataLen")
}
func acltdtAppendBufChain(t *rt.Thread, _, _ rt.Handle) rt.Code {
	return lacks(t, "acltdtAppendBufChain")
}
func acltdtGetBufChainNum(t *rt.Thread, _ rt.Handle, _ *uint32) rt.Code {
	return lacks(t, "acltdtGetBufChainNum")
}
func acltdtGetBufFromChain(t *rt.Thread, _ rt.Handle, _ uint32, _ *rt.Handle) rt.Code {
	return lacks(t, "acltdtGetBufFromChain")
}
func acltdtGetBufUserData(t *rt.Thread, _ rt.Handle, _ uintptr, _, _ uint64) rt.Code {
	return lacks(t, "acltdtGetBufUserData")
}
func acltdtSetBufUserData(t *rt.Thread, _ rt.Handle, _ uintptr, _, _ uint64) rt.Code {
	return lacks(t, "acltdtSetBufUserData")
}
func acltdtCopyBufRef(t *rt.Thread, _ rt.Handle, _ *rt.Handle) rt.Code {
	return lacks(t, "acltdtCopyBufRef")
}
