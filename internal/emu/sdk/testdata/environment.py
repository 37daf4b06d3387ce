# Changes the emulator's variables before the first call, and prints the chip and the number of devices.
import ctypes
import os

os.environ["CANN_EMU_SOC"] = "Ascend310P3"
os.environ.pop("CANN_EMU_DEVICES", None)
cann = ctypes.CDLL("libascendcl.so")
cann.aclrtGetSocName.restype = ctypes.c_char_p
count = ctypes.c_uint32()
assert cann.aclInit(None) == 0 and cann.aclrtSetDevice(0) == 0 and cann.aclrtGetDeviceCount(ctypes.byref(count)) == 0
print(cann.aclrtGetSocName(), count.value)
