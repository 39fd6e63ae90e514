// SPDX-License-Identifier: Apache-2.0
// The one error of the driver. Inside the driver a failure travels as std::expected<T, ErrorInfo>; what crosses the API
// is thrown as Error or one of the derived types. The types belong to the API and are defined there (spyre/error.hpp).
#pragma once

#include <expected>
#include <spyre/error.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "shared/outcome.hpp"

namespace svp {

using spyre::describe;
using spyre::Error;
using spyre::ErrorInfo;
using spyre::InvalidArgument;
using spyre::Layer;
using spyre::MemoryShortage;
using spyre::name;
using spyre::OutOfMemory;
using spyre::TimeoutError;

template <typename T>
using Expected = std::expected<T, ErrorInfo>;

// The driver refuses a request before any effect. `source` is the argument, as the caller knows it.
inline ErrorInfo refused_by_driver(std::string source, std::string message, std::string next_step) {
  return {.layer = Layer::Driver,
          .source = std::move(source),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = std::move(next_step),
          .message = std::move(message)};
}

// The value, or Error: where the inside of the driver meets its API.
template <typename T>
T value_or_throw(Expected<T> result) {
  if (!result) throw Error(std::move(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace svp
