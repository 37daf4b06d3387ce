package queue

import "github.com/goascend/cann/internal/emu/rt"

// channel is an acltdtChannelHandle: a queue of datasets.
type channel struct {
	handle rt.Handle
	name   string
	device *rt.Device
	queue  *queue
}

// acltdtCreateChannel always returns null: channels without a capacity feed operators of the AI
// CPU, which is not emulated.
func acltdtCreateChannel(t *rt.Thread, _ uint32, _ uintptr) rt.Handle {
	t.Fail(unsupported, "EH0005: acltdtCreateChannel: the emulator has no operators that take data from such a channel; use acltdtCreateChannelWithCapacity")
	return 0
}

// acltdtCreateChannelWithCapacity creates a channel, which is a queue on the host.
func (r *Runtime) acltdtCreateChannelWithCapacity(t *rt.Thread, device *rt.Device, name string, capacity uint64) rt.Handle {
	const function = "acltdtCreateChannelWithCapacity"
	if len(name) >= queueNameSize {
		t.Fail(rt.InvalidParam, "EH0001: %s: the name has %d bytes, %d are possible", function, len(name), queueNameSize-1)
		return 0
	}
	if device.Memory() == nil {
		t.Fail(rt.ParamInvalid, "EE1003: %s: device %d is not in use; call aclrtSetDevice first", function, device.ID())
		return 0
	}
	q, _ := r.newQueue(t, function, device.ID(), name, uint32(min(capacity, 1<<32-1)))
	if q == nil {
		return 0
	}
	c := &channel{name: name, device: device, queue: q}
	c.handle = r.Handles.New(rt.ChannelKind, c)
	return c.handle
}

//npugen:decode acltdtChannelHandle
func (r *Runtime) channel(t *rt.Thread, function, parameter string, h rt.Handle) (*channel, rt.Code) {
	return tdtObject[*channel](r, t, function, parameter, h)
}

func (r *Runtime) acltdtDestroyChannel(t *rt.Thread, handle *channel) rt.Code {
	if !r.queues.remove(handle.queue) {
		return t.Fail(rt.Failure, "EH0001: acltdtDestroyChannel: the queue of channel %s has routes; call acltdtUnbindQueueRoutes first", handle.name)
	}
	r.Handles.Delete(handle.handle)
	return 0
}

// acltdtStopChannel does nothing, since no thread serves a channel.
func (r *Runtime) acltdtStopChannel(*channel) rt.Code { return 0 }

func (r *Runtime) acltdtCleanChannel(handle *channel) rt.Code {
	r.queues.empty(handle.queue)
	return 0
}

func (r *Runtime) acltdtQueryChannelSize(handle *channel, size rt.Out[uint64]) rt.Code {
	size.Set(uint64(r.queues.size(handle.queue)))
	return 0
}

// channelWait is queueWait for the functions of channels.
func channelWait(t *rt.Thread, function string, timeout int32) (*rt.Wait, rt.Code) {
	w, ok := queueWait(timeout)
	if !ok {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: timeout %d ms; use -1, 0 or more", function, timeout)
	}
	return w, 0
}

// acltdtSendTensor copies the data of the items before it returns.
func (r *Runtime) acltdtSendTensor(t *rt.Thread, handle *channel, dataset *dataset, timeout int32) rt.Code {
	const function = "acltdtSendTensor"
	w, code := channelWait(t, function, timeout)
	if code != 0 {
		return code
	}
	m := handle.device.Memory()
	if m == nil {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: device %d was reset", function, handle.device.ID())
	}
	items, err := dataset.copies(r, m)
	if err != nil {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: %v", function, err)
	}
	if !r.queues.put(handle.queue, message{items: items}, w) {
		return t.Fail(queueFull, "EE1002: %s: channel %s stayed full for %d ms, or was destroyed", function, handle.name, timeout)
	}
	return 0
}

// acltdtReceiveTensor fills a dataset that is empty or was filled by an earlier receive.
func (r *Runtime) acltdtReceiveTensor(t *rt.Thread, handle *channel, dataset *dataset, timeout int32) rt.Code {
	const function = "acltdtReceiveTensor"
	w, code := channelWait(t, function, timeout)
	if code != 0 {
		return code
	}
	if len(dataset.items) > 0 && !dataset.owns {
		return t.Fail(rt.InvalidParam, "EH0001: %s: the dataset has items of the program; use an empty one", function)
	}
	var m message
	if !r.queues.take(handle.queue, func(first message) bool { m = first; return true }, w) {
		return t.Fail(queueEmpty, "EE1002: %s: channel %s stayed empty for %d ms, or was destroyed", function, handle.name, timeout)
	}
	dataset.fill(r, m.items)
	return 0
}
