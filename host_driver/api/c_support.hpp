// SPDX-License-Identifier: Apache-2.0
// What every function of the C interface does with its arguments and with what is thrown.
#pragma once

#include <spyre/spyre.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <spyre/error.hpp>
#include <string>
#include <utility>

namespace spyre::inline v0 {

// Of the exception that is being handled: keeps text and details for this thread.
spyre_status keep_failure() noexcept;

// The status of a body that throws C++ exceptions.
template <typename Body>
spyre_status guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return SPYRE_OK;
  } catch (...) {
    return keep_failure();
  }
}

// What a pointer points to. Throws InvalidArgument when it is null.
template <typename T>
T& require(T* pointer, const char* argument) {
  if (pointer != nullptr) return *pointer;
  throw InvalidArgument(argument, std::string(argument) + " is NULL", "give a valid pointer");
}
inline const void* require(const void* pointer, const char* argument) {
  if (pointer != nullptr) return pointer;
  throw InvalidArgument(argument, std::string(argument) + " is NULL", "give a valid pointer");
}

// Throw InvalidArgument.
void require_size(std::size_t given, std::size_t known, const char* argument);
void require_zero(std::uint64_t value, const char* member);

// The enumerator with this number. Throws InvalidArgument.
template <typename Enum>
Enum enumerated(std::int32_t number, Enum last, const char* argument) {
  if (number >= 0 && number <= static_cast<std::int32_t>(last)) return static_cast<Enum>(number);
  throw InvalidArgument(argument, "there is no " + std::string(argument) + " " + std::to_string(number),
                        "give one of the constants of spyre/spyre.h");
}

// A structure of a program that was built with an older or a newer header: what it does not have is 0, and what this
// library does not know has to be 0.
template <typename Options>
Options copy_of_options(const Options& given) {
  require_size(given.size, sizeof(std::size_t), "options");
  const auto* bytes = reinterpret_cast<const std::byte*>(&given);
  if (given.size > sizeof(Options) &&
      std::any_of(bytes + sizeof(Options), bytes + given.size, [](std::byte b) { return b != std::byte{0}; })) {
    throw InvalidArgument("options", "the structure has members that this library does not know and that are not 0",
                          "use the library that belongs to the header");
  }
  Options copy{};
  std::memcpy(&copy, bytes, std::min(given.size, sizeof(Options)));
  return copy;
}

}  // namespace spyre::inline v0
