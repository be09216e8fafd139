/* file_text.h - a file as one string. */
#pragma once

/* Up to the first NUL, for free(); NULL: unreadable, empty, or no memory. It does I/O. */
char *fp_file_text(const char *path);
