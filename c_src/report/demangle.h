/* demangle.h - names of C++ functions: the symbols of the Itanium C++ ABI (its chapter 5.1), as
 * c++filt prints them, without the types of arguments and templates. viewer/src/model/demangle.js
 * does the same. */
#pragma once

#include "base/slice.h"

/* With the byte behind it. A longer name stays as it is. */
#define FP_DEMANGLED_BYTES 1024

/* The name in `room`, which has FP_DEMANGLED_BYTES; `symbol` itself where it is not of C++, or of a
 * kind that is not known here. */
struct fp_slice fp_demangle(struct fp_slice symbol, char *room);
