// SPDX-License-Identifier: Apache-2.0
// The texts of errors name calls of the C++ interface. A program in C is told the functions that it has.
#pragma once

#include <string>

namespace spyre::inline v0 {

// `text` with the C function in place of each call of C++: "BeginCapture()" becomes "spyre_stream_begin_capture()".
std::string with_c_names(std::string text);

}  // namespace spyre::inline v0
