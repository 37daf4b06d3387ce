/* The end of a computation type. */
#undef RUN
#undef STEP
#undef VL
#undef NR
#undef GROUP
#undef A_ROWS
#undef P
#undef PV
#undef MULADD
#undef MULADD_EXCESS
#undef SPREAD
#undef T
#undef V
#undef NAME
