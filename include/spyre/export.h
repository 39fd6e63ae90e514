/* SPDX-License-Identifier: Apache-2.0
 * SPYRE_API marks what libspyre.so exports: everything else in it is hidden. For C and C++. */
#ifndef SPYRE_EXPORT_H
#define SPYRE_EXPORT_H

#define SPYRE_API __attribute__((visibility("default")))

#endif
