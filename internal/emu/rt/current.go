package rt

// CurrentDevice is the device of the thread's current context, or -1 and the code that says
// there is none.
func (r *Runtime) CurrentDevice(t *Thread) (device int, code int32) {
	c, word := r.current(t)
	if c == nil {
		return -1, int32(word)
	}
	return c.device.id, 0
}

// DeviceCount is the number of devices that this process sees.
func (r *Runtime) DeviceCount() int { return len(r.devices) }

// Memory is the memory of a device, nil while the device is not in use.
func (r *Runtime) Memory(device int) *Memory {
	d := r.devices[device]
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memory
}

// PhysicalDevice is the machine's number of a device that this process sees.
func (r *Runtime) PhysicalDevice(device int) int { return r.devices[device].physical }
