// SPDX-License-Identifier: Apache-2.0
// What leaves libflex is thrown as std::runtime_error: the driver's own types stay inside.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/base/mutants.hpp"

namespace flex::detail {

template <typename F>
auto guarded(F&& f) -> decltype(std::forward<F>(f)()) {
  try {
    return std::forward<F>(f)();
  } catch (const svp::Error& error) {
    if (svp::mutated(svp::HostMutant::FlexException)) throw;
    throw std::runtime_error(error.what());
  }
}

[[noreturn]] inline void refuse(const char* argument, const std::string& what, const char* next_step) {
  throw svp::InvalidArgument(argument, std::string(argument) + ": " + what, next_step);
}

}  // namespace flex::detail
