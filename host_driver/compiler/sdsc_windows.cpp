// SPDX-License-Identifier: Apache-2.0
// Windows of an SDSC: which dimensions count them (N_), and which tensors are read through them (scheduleTree_).
#include "host_driver/compiler/sdsc_members.hpp"

namespace svp::compiler {

namespace {

using nlohmann::json;

constexpr std::size_t kMostPaddings = 8;
// Windows over what is in memory and nothing around it; the last elements may be in no window.
constexpr const char* kNothingAround = "padded_fullspan_wunneeded";

std::uint32_t positive(StrictObject& object, const char* key) {
  const auto number = static_cast<std::uint32_t>(object.number(key, kMostExtent));
  if (number == 0) object.refuse(key, "is 0");
  return number;
}

// An entry of paddingSizes_. A dimension of one element may be missing in N_, and has no windows.
void read_window(Sdsc& sdsc, const std::string& name, StrictObject& object) {
  for (const char* key : {"padFront_", "padBack_"}) {
    if (object.number(key, kMostExtent) == 0) continue;
    object.refuse(key, "puts elements around the tensor, and this compiler takes windows inside of it only");
  }
  ignore(object, {"unneededPad_", "unneededPadFront_", "unneededPadBack_"});
  Window window{.elements = positive(object, "totalSize_"),
                .stride = positive(object, "stride_"),
                .dilation = positive(object, "dilation_")};
  const std::string taps = object.text("windowDim_", kMostNameBytes);
  object.finish();
  const auto found = std::ranges::find(sdsc.dimensions, name, &Dimension::name);
  if (found == sdsc.dimensions.end()) {
    if (window.elements == 1) return;
    throw BadMember{object.path(), "is of a dimension that N_ does not have, with more than one element"};
  }
  window.dimension = static_cast<std::uint8_t>(found - sdsc.dimensions.begin());
  window.taps = dimension_of(sdsc, taps, object.path_of("windowDim_"));
  if (window.taps == window.dimension) object.refuse("windowDim_", "is the dimension itself");
  for (const Window& other : sdsc.windows) {
    if (other.taps == window.taps || other.taps == window.dimension || other.dimension == window.taps) {
      object.refuse("windowDim_", "is of another window, too");
    }
  }
  const std::uint64_t span = window.span(found->extent, sdsc.dimensions[window.taps].extent);
  if (span > window.elements) {
    object.refuse("totalSize_", "is " + std::to_string(window.elements) + ", and the windows reach over " +
                                    std::to_string(span) + " elements");
  }
  sdsc.windows.push_back(window);
}

}  // namespace

void read_windows(StrictObject& body, Sdsc& sdsc) {
  StrictObject extents(body.member("N_"), body.path_of("N_"));
  if (!extents.has("paddingSizes_")) return;
  const json& entries = extents.member("paddingSizes_");
  const StrictObject names(entries, extents.path_of("paddingSizes_"));
  if (entries.size() > kMostPaddings) throw BadMember{names.path(), "has too many entries"};
  for (const auto& [name, value] : entries.items()) {
    StrictObject entry(value, names.path_of(name));
    read_window(sdsc, name, entry);
  }
}

void read_windowed(const Sdsc& sdsc, StrictObject& node, SdscTensor& tensor) {
  if (!node.has("padding_")) return;
  const json& entries = node.member("padding_");
  StrictObject object(entries, node.path_of("padding_"));
  if (entries.size() > kMostPaddings) throw BadMember{object.path(), "has too many entries"};
  for (const auto& [name, kind] : entries.items()) {
    if (object.text(name.c_str(), kMostNameBytes) != kNothingAround) {
      object.refuse(name.c_str(), std::string("is not ") + kNothingAround);
    }
    const auto found = std::ranges::find(sdsc.dimensions, name, &Dimension::name);
    if (found == sdsc.dimensions.end()) continue;
    const auto dimension = static_cast<std::uint8_t>(found - sdsc.dimensions.begin());
    const Window* const window = sdsc.window_of(dimension);
    if (window == nullptr) object.refuse(name.c_str(), "is a dimension that counts no windows");
    if (!tensor.has(dimension)) object.refuse(name.c_str(), "is a dimension that the tensor does not have");
    if (tensor.scale[window->taps] != Scale::None) object.refuse(name.c_str(), "has its taps in the tensor, too");
    if (tensor.stick_of(dimension) != nullptr) object.refuse(name.c_str(), "is the tensor's stick dimension");
    tensor.windowed.push_back(dimension);
  }
}

}  // namespace svp::compiler
