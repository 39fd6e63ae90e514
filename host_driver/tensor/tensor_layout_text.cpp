// SPDX-License-Identifier: Apache-2.0
// A layout as text, as JSON, and as a hash.
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>

#include "host_driver/tensor/tensor_layout.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace spyre::inline v0 {
namespace {

constexpr std::size_t kMostJsonBytes = std::size_t{64} << 10;
constexpr std::size_t kMembers = 4;
constexpr const char* kNext = "give what SpyreTensorLayout::to_json() wrote";

[[noreturn]] void refuse_json(const char* field, const std::string& what) {
  throw InvalidArgument(field, std::string(field) + " of a layout " + what, kNext);
}

const nlohmann::json& member(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) refuse_json(name, "is missing");
  return *found;
}

// Host dimensions, strides and extents: −1 is the smallest that any of them can be.
std::vector<std::int64_t> list(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = member(object, name);
  // A layout has one dimension more than its tensor, or any number when it was made by hand.
  if (!value.is_array() || value.empty() || value.size() > 2 * svp::kMostDimensions) {
    refuse_json(name, "is not a list of 1 to " + std::to_string(2 * svp::kMostDimensions) + " numbers");
  }
  std::vector<std::int64_t> result;
  for (const nlohmann::json& entry : value) {
    const bool fits = entry.is_number_unsigned() ? entry.get<std::uint64_t>() < std::uint64_t{1} << 62
                                                 : entry.is_number_integer() && entry.get<std::int64_t>() == -1;
    if (!fits) refuse_json(name, "has an entry that is no integer from -1 to 2^62");
    result.push_back(entry.get<std::int64_t>());
  }
  return result;
}

DeviceType device_type(const nlohmann::json& object) {
  const nlohmann::json& value = member(object, "device_dtype");
  for (int i = 0; value.is_string() && i <= static_cast<int>(DeviceType::Fp8E5m2); ++i) {
    const auto type = static_cast<DeviceType>(i);
    if (value.get_ref<const std::string&>() == name(type)) return type;
  }
  refuse_json("device_dtype", "is no format of the card");
}

void require_lists(const SpyreTensorLayout& layout) {
  const std::size_t length = layout.device_size.size();
  if (layout.stride_map.size() != length) refuse_json("stride_map", "is not as long as device_size");
  if (layout.dim_map.size() != length) refuse_json("dim_map", "is not as long as device_size");
  svp::require_shape("device_size", layout.device_size);
  if (layout.device_size.back() != elements_per_stick(layout.device_dtype)) {
    refuse_json("device_size", "does not end with a stick of " + std::string(name(layout.device_dtype)));
  }
  for (const std::int64_t dim : layout.dim_map) {
    if (dim >= static_cast<std::int64_t>(svp::kMostDimensions)) refuse_json("dim_map", "names no dimension");
  }
}

}  // namespace

std::string SpyreTensorLayout::to_json() const {
  const nlohmann::ordered_json object = {{"device_size", device_size},
                                         {"stride_map", stride_map},
                                         {"dim_map", dim_map},
                                         {"device_dtype", name(device_dtype)}};
  return object.dump();
}

SpyreTensorLayout SpyreTensorLayout::from_json(std::string_view json) {
  if (json.size() > kMostJsonBytes) refuse_json("json", "is longer than " + std::to_string(kMostJsonBytes) + " bytes");
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) refuse_json("json", "is no JSON object");
  SpyreTensorLayout layout{.device_size = list(object, "device_size"),
                           .stride_map = list(object, "stride_map"),
                           .dim_map = list(object, "dim_map"),
                           .device_dtype = device_type(object)};
  if (object.size() != kMembers) refuse_json("json", "has members that are not known");
  require_lists(layout);
  return layout;
}

std::string to_string(const SpyreTensorLayout& layout) {
  return "SpyreTensorLayout(device_size=" + svp::to_string(layout.device_size) +
         ", stride_map=" + svp::to_string(layout.stride_map) +
         ", device_dtype=" + std::string(name(layout.device_dtype)) + ")";
}

std::ostream& operator<<(std::ostream& out, const SpyreTensorLayout& layout) { return out << to_string(layout); }

std::size_t hash_value(const SpyreTensorLayout& layout) noexcept {
  std::uint64_t hash = static_cast<std::uint64_t>(layout.device_dtype);
  for (const auto* list : {&layout.device_size, &layout.stride_map, &layout.dim_map}) {
    for (const std::int64_t entry : *list) {
      hash = (hash ^ static_cast<std::uint64_t>(entry)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace spyre::inline v0
