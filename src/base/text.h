/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that came from outside, made fit for one line of a terminal, a log or key=value output. */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

/* Control characters become '?': a name from a peer must not forge a line or move the cursor. */
static inline void text_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
}

#endif
