// SPDX-License-Identifier: Apache-2.0
// What the readers of an SDSC share: its dimensions by name, and members of JSON objects that several of them read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/strict_json.hpp"
#include "host_driver/compiler/sdsc.hpp"

namespace svp::compiler {

inline constexpr std::size_t kMostNameBytes = 64;
inline constexpr std::uint64_t kMostExtent = (std::uint64_t{1} << 31) - 1;

std::string element(const std::string& list, std::size_t index);
inline bool contains(const std::vector<std::uint8_t>& dimensions, std::size_t dimension) {
  return std::ranges::find(dimensions, dimension) != dimensions.end();
}

// Members whose content says nothing that this compiler needs.
void ignore(StrictObject& object, std::initializer_list<const char*> keys);

// An integer from `min` to `max`.
std::int64_t integer(StrictObject& object, const char* key, std::int64_t min, std::int64_t max);
// A text of decimal digits, perhaps with a sign.
std::int64_t signed_decimal(const nlohmann::json& value, const std::string& path);

// The number of a dimension. Throws BadMember: N_ does not have it.
std::uint8_t dimension_of(const Sdsc& sdsc, std::string_view name, const std::string& path);
// A list of names, none of them twice.
std::vector<std::uint8_t> dimensions_in(const Sdsc& sdsc, StrictObject& object, const char* key);
// {"mb": number, …} of all dimensions or some.
std::array<std::uint32_t, kMostDimensions> by_dimension(const Sdsc& sdsc, const nlohmann::json& value,
                                                        const std::string& path, std::uint64_t most);
// {"0": {"mb": 0, …}, …}: for each core the part of each dimension, each below `parts`.
std::vector<std::array<std::uint32_t, kMostDimensions>> by_core(
    const Sdsc& sdsc, const nlohmann::json& value, const std::string& path,
    const std::array<std::uint32_t, kMostDimensions>& parts);

// N_.paddingSizes_: which dimensions count windows, and how.
void read_windows(StrictObject& body, Sdsc& sdsc);
// padding_ of an entry of scheduleTree_: along which of them the tensor is read through windows.
void read_windowed(const Sdsc& sdsc, StrictObject& node, SdscTensor& tensor);

// The entry of scheduleTree_, with what labeledDs_ and primaryDsInfo_ say of it.
void read_tensors(StrictObject& body, Sdsc& sdsc);

}  // namespace svp::compiler
