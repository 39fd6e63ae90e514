/* SPDX-License-Identifier: Apache-2.0
 * What the tests of the C interface check with. Plain C, no test library: a failed check prints its line, and the program
 * ends with 1. */
#ifndef SPYRE_TESTS_C_CHECKS_H
#define SPYRE_TESTS_C_CHECKS_H

#include <spyre/spyre.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, spyre_last_error()); \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)
#define OK(call) CHECK((call) == SPYRE_OK)
#define BOUND_NS UINT64_C(60000000000) /* ends a hang; nothing is judged by it */

enum { M = 64, N = 128, ELEMENTS = M * N }; /* of the tensors */

#endif
