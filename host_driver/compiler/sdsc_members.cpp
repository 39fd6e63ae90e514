// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/sdsc_members.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace svp::compiler {

using nlohmann::json;

std::string element(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

void ignore(StrictObject& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (object.has(key)) (void)object.member(key);
  }
}

std::int64_t integer(StrictObject& object, const char* key, std::int64_t min, std::int64_t max) {
  const json& value = object.member(key);
  const bool fits =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  if (!fits || value.get<std::int64_t>() < min || value.get<std::int64_t>() > max) {
    object.refuse(key,
                  "is " + value.dump() + ", no integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value.get<std::int64_t>();
}

std::int64_t signed_decimal(const json& value, const std::string& path) {
  if (!value.is_string()) throw BadMember{path, "is not a text of decimal digits"};
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    throw BadMember{path, "is not a text of decimal digits"};
  }
  return number;
}

std::uint8_t dimension_of(const Sdsc& sdsc, std::string_view name, const std::string& path) {
  const auto found = std::ranges::find(sdsc.dimensions, name, &Dimension::name);
  if (found == sdsc.dimensions.end()) throw BadMember{path, "names a dimension that N_ does not have"};
  return static_cast<std::uint8_t>(found - sdsc.dimensions.begin());
}

std::vector<std::uint8_t> dimensions_in(const Sdsc& sdsc, StrictObject& object, const char* key) {
  const json& names = object.list(key, kMostDimensions);
  std::vector<std::uint8_t> result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string path = element(object.path_of(key), i);
    if (!names[i].is_string()) throw BadMember{path, "is not a text"};
    const std::uint8_t dimension = dimension_of(sdsc, names[i].get_ref<const std::string&>(), path);
    if (contains(result, dimension)) throw BadMember{path, "stands there twice"};
    result.push_back(dimension);
  }
  return result;
}

std::array<std::uint32_t, kMostDimensions> by_dimension(const Sdsc& sdsc, const json& value, const std::string& path,
                                                        std::uint64_t most) {
  std::array<std::uint32_t, kMostDimensions> result{};
  StrictObject object(value, path);
  for (const auto& [name, number] : value.items()) {
    const std::uint8_t dimension = dimension_of(sdsc, name, object.path_of(name));
    result[dimension] = static_cast<std::uint32_t>(object.number(name.c_str(), most));
  }
  return result;
}

std::vector<std::array<std::uint32_t, kMostDimensions>> by_core(
    const Sdsc& sdsc, const json& value, const std::string& path,
    const std::array<std::uint32_t, kMostDimensions>& parts) {
  std::vector<std::array<std::uint32_t, kMostDimensions>> result;
  StrictObject object(value, path);
  for (std::uint32_t core = 0; core < sdsc.cores; ++core) {
    const std::string key = std::to_string(core);
    result.push_back(by_dimension(sdsc, object.member(key.c_str()), object.path_of(key), kMostCores));
    for (std::size_t d = 0; d < sdsc.dimensions.size(); ++d) {
      if (result.back()[d] < std::max(parts[d], 1u)) continue;
      object.refuse(key.c_str(), "gives " + sdsc.dimensions[d].name + " part " + std::to_string(result.back()[d]) +
                                     " of " + std::to_string(parts[d]));
    }
  }
  object.finish();
  return result;
}

}  // namespace svp::compiler
