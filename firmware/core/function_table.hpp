// SPDX-License-Identifier: Apache-2.0
// The functions of the card: M, the PF, then VF 1 … n. As many as the boot words say, from boot on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "firmware/core/function.hpp"
#include "shared/boot_arguments.hpp"

namespace fw {

inline constexpr unsigned kMaxFunctions = wire::boot::kMaxVirtualFunctions + 2;
inline constexpr std::uint32_t kManagement = 0;
inline constexpr std::uint32_t kPhysical = 1;
static_assert(kMaxFunctions <= 32, "functions are bits of a word");

class FunctionTable {
 public:
  // In order: 0, 1, …
  Function& add(std::uint32_t id) {
    count_ = id + 1;
    return functions_[id];
  }
  std::uint32_t count() const { return count_; }
  Function& operator[](std::uint32_t id) { return functions_[id]; }
  const Function& operator[](std::uint32_t id) const { return functions_[id]; }

  Function* begin() { return functions_.data(); }
  Function* end() { return functions_.data() + count_; }
  const Function* begin() const { return functions_.data(); }
  const Function* end() const { return functions_.data() + count_; }
  // All but M.
  std::span<Function> tenants() { return std::span(begin(), end()).subspan(std::min(count_, kPhysical)); }
  std::span<const Function> tenants() const { return std::span(begin(), end()).subspan(std::min(count_, kPhysical)); }

 private:
  std::array<Function, kMaxFunctions> functions_;
  std::uint32_t count_ = 0;
};

}  // namespace fw
