// Command sdk is the emulator as a shared library with CANN's C symbols. `make sdk` installs
// it under the names of CANN's libraries, so that unchanged programs in C, C++, Python or any
// other language run without an Ascend device.
//
//	make sdk
//	source build/sdk/set_env.sh
//	gcc program.c -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 -lascendcl -lnnopbase -lopapi
//
// Every function of the table exists: one that the emulator does not implement returns an
// error that names it. The first call of one loads the emulator, which holds a Go runtime with its threads and
// cannot be unloaded: from then on calls of a forked child fail, and report why.
package main
