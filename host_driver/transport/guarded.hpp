// SPDX-License-Identifier: Apache-2.0
// Where exceptions of the standard library end inside the driver: no host memory, no thread. They become the driver's
// error, with everything that the call had taken given back by then.
#pragma once

#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "host_driver/base/error.hpp"
#include "host_driver/base/mutants.hpp"
#include "host_driver/transport/fault_hooks.hpp"

namespace svp {

inline ErrorInfo host_exhausted(std::string_view what, std::string_view lacked) {
  return {.layer = Layer::Driver,
          .source = "host memory",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "free memory of this process or raise its limits, then try again",
          .message = std::string(what) + " was given up: " + std::string(lacked)};
}

// A text about an error, where nothing may fail: without memory it is as short as fits into a std::string.
template <typename Build>
std::string text_or_less(Build&& build) noexcept {
  try {
    return build();
  } catch (const std::bad_alloc&) {
    return "no host memory";
  }
}

// An error where nothing may fail: without memory its texts are short, its kind is as given.
template <typename Build>
ErrorInfo error_or_less(wire::Outcome outcome, Build&& build) noexcept {
  try {
    return build();
  } catch (const std::bad_alloc&) {
    return {.layer = Layer::Driver,
            .source = "host memory",
            .outcome = outcome,
            .recoverable = false,
            .next_step = "free memory",
            .message = "no host memory"};
  }
}

// `call` returns an Expected. When even the error finds no memory, std::bad_alloc leaves after all.
template <typename Call>
std::invoke_result_t<Call> guarded(std::string_view what, Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    if (mutated(HostMutant::HostExhaustion)) throw;
    const DriverCall not_the_driver(nullptr);
    return std::unexpected(host_exhausted(what, "there is no host memory for it"));
  } catch (const std::system_error& error) {
    if (mutated(HostMutant::HostExhaustion)) throw;
    const DriverCall not_the_driver(nullptr);
    return std::unexpected(host_exhausted(what, error.what()));
  }
}

}  // namespace svp
