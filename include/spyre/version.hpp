// SPDX-License-Identifier: Apache-2.0
// Which library a program runs with.
#pragma once

#include <spyre/export.h>

#include <string>

namespace spyre::inline v0 {

// "0.1.0": of the library that is loaded, which may be another than the headers'. SOVERSION 0: any two versions may
// differ in their binary interface, so build a program again for another version.
SPYRE_API std::string version();

}  // namespace spyre::inline v0
