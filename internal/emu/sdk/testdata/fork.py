# Lets processes started by multiprocessing call CANN: before their parent does, and after.
#
#   python3 fork.py METHOD    of multiprocessing.get_all_start_methods()
#
# Each line names the time, and has what the child got: a sum of bytes that were on a device, or a code and its text.
import ctypes
import multiprocessing
import sys

cann = ctypes.CDLL("libascendcl.so")
cann.aclGetRecentErrMsg.restype = ctypes.c_char_p
cann.aclrtMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def calls():
    memory, out = ctypes.c_void_p(), ctypes.create_string_buffer(4)
    for code in (
        cann.aclInit(None),
        cann.aclrtSetDevice(0),
        cann.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(4), 0),
        cann.aclrtMemcpy(memory, 4, b"\1\2\3\4", 4, 1),
        cann.aclrtMemcpy(out, 4, memory, 4, 2),
    ):
        if code != 0:
            return "%d %s" % (code, cann.aclGetRecentErrMsg().decode())
    return "sum %d" % sum(out.raw)


def child(answers):
    answers.put(calls())


def answer(context):
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    text = answers.get(timeout=120)
    process.join()
    return text


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    print("before:", answer(context))
    print("parent:", calls())
    print("after:", answer(context))
    memory = ctypes.c_void_p()
    print("parent:", cann.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(4), 0))
