#ifndef EXPORTTEST_CALL_H
#define EXPORTTEST_CALL_H

/* Calls a function that the emulator lacks and copies what aclGetRecentErrMsg returns next. */
int exporttest_unsupported(char *text, int size);
/* Lets n new threads fail at once, each with its own call and text, and returns how many
 * saw their own text and only that. */
int exporttest_threads(int n);
/* aclFloat16ToFloat, whose result is a float. */
float exporttest_half(unsigned short bits);

#endif
