// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "host_driver/base/error.hpp"

namespace bench {

// Wrong data, or a card that did not do what was asked: ends the measurement, and the run with a non-zero code.
class MeasurementError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(bool condition, const std::string& what) {
  if (!condition) throw MeasurementError(what);
}

}  // namespace bench
