/* Shared by the tests in C: a failed expectation is reported, and counted. */
#ifndef TRIMTAB_TESTS_EXPECT_H
#define TRIMTAB_TESTS_EXPECT_H

#include <errno.h>
#include <stdio.h>

#include <trimtab.h>

static int failures;

static void expect(int line, int holds)
{
	if (!holds) {
		fprintf(stderr, "line %d: errno %d, \"%s\"\n", line, errno, trimtab_last_error());
		failures++;
	}
	errno = 0;
}
#define EXPECT(holds) expect(__LINE__, (holds))

#endif
