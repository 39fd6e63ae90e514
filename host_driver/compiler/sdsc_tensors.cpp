// SPDX-License-Identifier: Apache-2.0
// The tensors of an SDSC. Three lists of the JSON describe each of them: primaryDsInfo_ the order and sticks of a class
// of tensors, labeledDs_ its class and format, scheduleTree_ where it lies.
#include <algorithm>
#include <map>
#include <utility>

#include "host_driver/compiler/sdsc_members.hpp"

namespace svp::compiler {

namespace {

using nlohmann::json;
using wire::program::Format;

constexpr std::int64_t kMostGap = std::int64_t{1} << 31;
constexpr std::int64_t kMostScratchpadByte = 2 * 1024 * 1024;

// An entry of primaryDsInfo_.
struct TensorClass {
  std::vector<std::uint8_t> order;  // what scale_ counts along
  std::vector<Stick> sticks;
};
using Classes = std::map<std::string, TensorClass, std::less<>>;

struct FormatName {
  const char* name;
  Format format;
};
// An index is called unsigned, and is an int32.
constexpr FormatName kFormats[] = {{"SEN169_FP16", Format::Dl16}, {"IEEE_FP32", Format::Fp32},
                                   {"IEEE_INT32", Format::Int32}, {"SENUINT32", Format::Int32},
                                   {"SENINT16", Format::Int16},   {"SENINT8", Format::Int8},
                                   {"SENUINT8", Format::Int8},    {"SEN143_FP8", Format::Fp8E4m3}};

Format read_format(StrictObject& label) {
  const std::string name = label.text("dataFormat_", kMostNameBytes);
  const auto* const found = std::ranges::find_if(kFormats, [&](const FormatName& f) { return name == f.name; });
  if (found == std::end(kFormats)) label.refuse("dataFormat_", "is no format that this compiler knows");
  if (label.number("wordLength", 8) != wire::program::item_bytes(found->format)) {
    label.refuse("wordLength", "is not that of " + name);
  }
  return found->format;
}

TensorClass read_class(const Sdsc& sdsc, const json& value, const std::string& path) {
  StrictObject object(value, path);
  ignore(object, {"stickRepl_", "pdsRelation_"});
  TensorClass result{.order = dimensions_in(sdsc, object, "layoutDimOrder_"), .sticks = {}};
  const auto dimensions = dimensions_in(sdsc, object, "stickDimOrder_");
  const json& sizes = object.list("stickSize_", kMostDimensions);
  if (sizes.size() != dimensions.size() || sizes.empty() || sizes.size() > 2) {
    object.refuse("stickSize_", "is not one size for each of one or two stick dimensions");
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string at = element(object.path_of("stickSize_"), i);
    if (!sizes[i].is_number_unsigned() || sizes[i].get<std::uint64_t>() - 1 >= wire::kStickBytes) {
      throw BadMember{at, "is no number of elements of a stick"};
    }
    result.sticks.push_back({dimensions[i], sizes[i].get<std::uint32_t>()});
  }
  object.finish();
  return result;
}

Classes read_classes(const Sdsc& sdsc, StrictObject& body) {
  Classes classes;
  const json& entries = body.member("primaryDsInfo_");
  const StrictObject object(entries, body.path_of("primaryDsInfo_"));
  for (const auto& [label, value] : entries.items()) {
    classes.emplace(label, read_class(sdsc, value, object.path_of(label)));
  }
  return classes;
}

// An entry of labeledDs_: number `index` of them.
void read_label(const Sdsc& sdsc, const json& value, const std::string& path, std::size_t index, const Classes& classes,
                SdscTensor& tensor) {
  StrictObject label(value, path);
  ignore(label, {"memOrg_"});
  if (label.number("ldsIdx_", kMostTensors) != index) label.refuse("ldsIdx_", "is not its place in the list");
  tensor.name = label.text("dsName_", kMostNameBytes);
  const auto found = classes.find(label.text("dsType_", kMostNameBytes));
  if (found == classes.end()) label.refuse("dsType_", "is no entry of primaryDsInfo_");
  tensor.sticks = found->second.sticks;
  tensor.format = read_format(label);
  std::uint32_t lanes = 1;
  for (const Stick& stick : tensor.sticks) lanes *= stick.size;
  if (lanes != wire::program::lanes_of(tensor.format))
    label.refuse("dsType_", "has sticks of another number of elements");
  const json& scales = label.list("scale_", kMostDimensions);
  if (scales.size() != found->second.order.size()) label.refuse("scale_", "is not one number for each dimension");
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const bool known = scales[i] == 1 || scales[i] == -1 || scales[i] == -2;
    if (!known) throw BadMember{element(label.path_of("scale_"), i), "is " + scales[i].dump() + ", none of 1, -1, -2"};
    tensor.scale[found->second.order[i]] = static_cast<Scale>(scales[i].get<int>());
  }
  for (std::size_t d = 0; d < sdsc.dimensions.size(); ++d) {
    if (tensor.scale[d] != Scale::AbsentStick || tensor.stick_of(static_cast<unsigned>(d)) != nullptr) continue;
    label.refuse("scale_", "has -2 at no stick dimension");
  }
  label.finish();
}

// {"[0, 0, 0]": "-1", …}: of each core a symbol id or an address of its scratchpad.
void read_start(const Sdsc& sdsc, StrictObject& node, SdscTensor& tensor) {
  StrictObject object(node.member("startAddressCoreCorelet_"), node.path_of("startAddressCoreCorelet_"));
  ignore(object, {"dim_prop_func", "dim_prop_attr"});
  StrictObject data(object.member("data_"), object.path_of("data_"));
  for (std::uint32_t core = 0; core < sdsc.cores; ++core) {
    const std::string key = "[" + std::to_string(core) + ", 0, 0]";
    const std::int64_t start = signed_decimal(data.member(key.c_str()), data.path_of(key));
    const bool good = tensor.memory == Memory::Hbm || (start >= 0 && start < kMostScratchpadByte &&
                                                       start % static_cast<std::int64_t>(wire::kStickBytes) == 0);
    if (!good) data.refuse(key.c_str(), "is no address of a stick in a scratchpad");
    tensor.start.push_back(start);
  }
  data.finish();
  object.finish();
}

// {"mb": {"-1": "32"}, …}: elements of the allocation beyond N_; in a scratchpad the same for each core.
void read_gaps(const Sdsc& sdsc, StrictObject& node, SdscTensor& tensor) {
  if (!node.has("backGapCore_")) return;
  const json& gaps = node.member("backGapCore_");
  StrictObject object(gaps, node.path_of("backGapCore_"));
  for (const auto& [name, cores] : gaps.items()) {
    const std::string path = object.path_of(name);
    const std::uint8_t dimension = dimension_of(sdsc, name, path);
    StrictObject of_cores(cores, path);
    if (cores.empty() || cores.size() > kMostCores) throw BadMember{path, "is not one number, or one for each core"};
    std::optional<std::int64_t> gap;
    for (const auto& [core, text] : cores.items()) {
      const std::int64_t number = signed_decimal(text, of_cores.path_of(core));
      if (number < 0 || number > kMostGap) throw BadMember{of_cores.path_of(core), "is no number of elements"};
      if (gap.value_or(number) != number) throw BadMember{of_cores.path_of(core), "differs from that of another core"};
      gap = number;
    }
    tensor.gap[dimension] = static_cast<std::uint32_t>(*gap);
  }
}

std::uint32_t parts_of(const json& folds, const std::string& path) {
  StrictObject object(folds, path);
  ignore(object, {"dim_prop_func"});
  const json& attributes = object.list("dim_prop_attr", kMostDimensions);
  object.finish();
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    StrictObject attribute(attributes[i], element(object.path_of("dim_prop_attr"), i));
    const std::string label = attribute.text("label_", kMostNameBytes);
    const std::uint64_t factor = attribute.number("factor_", kMostExtent);
    attribute.finish();
    if (label == "core_fold") return static_cast<std::uint32_t>(std::max<std::uint64_t>(factor, 1));
  }
  throw BadMember{object.path_of("dim_prop_attr"), "has no core_fold"};
}

void read_coordinates(const Sdsc& sdsc, StrictObject& node, SdscTensor& tensor) {
  StrictObject object(node.member("coordinates_"), node.path_of("coordinates_"));
  const json& info = object.member("coordInfo");
  StrictObject dimensions(info, object.path_of("coordInfo"));
  for (const auto& [name, value] : info.items()) {
    StrictObject dimension(value, dimensions.path_of(name));
    ignore(dimension, {"spatial", "temporal", "elemArr", "padding"});
    const std::uint32_t parts = parts_of(dimension.member("folds"), dimension.path_of("folds"));
    if (parts > kMostCores) dimension.refuse("folds", "divides it among more than 32 cores");
    tensor.parts[dimension_of(sdsc, name, dimensions.path_of(name))] = parts;
    dimension.finish();
  }
  const json& owners = object.member("coreIdToWkSlice_");
  if (!owners.is_object() || !owners.empty()) {
    tensor.owned = by_core(sdsc, owners, object.path_of("coreIdToWkSlice_"), tensor.parts);
  }
  object.finish();
}

void read_indirection(StrictObject& node, SdscTensor& tensor) {
  const std::string kind = node.text("indirectAllocType_", kMostNameBytes);
  if (kind == "index_tensor") {
    tensor.indirection = Indirection::Index;
  } else if (kind == "value_tensor") {
    tensor.indirection = Indirection::Value;
  } else if (kind != "no_indirection") {
    node.refuse("indirectAllocType_", "is none of no_indirection, index_tensor, value_tensor");
  }
  ignore(node, {"indexTensorType_", "relatedIndirectAccessAlloc_"});
}

Memory read_memory(StrictObject& node) {
  const std::string component = node.text("component_", kMostNameBytes);
  ignore(node, {"isStartAddrSymbolic_"});
  if (component == "hbm") return Memory::Hbm;
  if (component != "lx") node.refuse("component_", "is none of hbm, lx");
  return Memory::Lx;
}

// An entry of scheduleTree_.
void read_node(const Sdsc& sdsc, const json& value, std::size_t index, SdscTensor& tensor) {
  StrictObject node(value, tensor.path);
  ignore(node, {"prev_", "maxDimSizes_"});
  if (node.text("nodeType_", kMostNameBytes) != "allocate") node.refuse("nodeType_", "is not allocate");
  if (node.number("ldsIdx_", kMostTensors) != index) node.refuse("ldsIdx_", "is not its place in the list");
  ignore(node, {"name_"});
  tensor.memory = read_memory(node);
  tensor.order = dimensions_in(sdsc, node, "layoutDimOrder_");
  for (std::size_t d = 0; d < sdsc.dimensions.size(); ++d) {
    if (contains(tensor.order, d) == (tensor.scale[d] != Scale::None)) continue;
    node.refuse("layoutDimOrder_", "and primaryDsInfo_ differ in dimension " + sdsc.dimensions[d].name);
  }
  read_windowed(sdsc, node, tensor);
  read_indirection(node, tensor);
  read_start(sdsc, node, tensor);
  read_gaps(sdsc, node, tensor);
  read_coordinates(sdsc, node, tensor);
  node.finish();
}

}  // namespace

void read_tensors(StrictObject& body, Sdsc& sdsc) {
  const Classes classes = read_classes(sdsc, body);
  const json& nodes = body.list("scheduleTree_", kMostTensors);
  const json& labels = body.list("labeledDs_", kMostTensors);
  if (nodes.empty() || nodes.size() != labels.size()) {
    body.refuse("labeledDs_", "is not one entry for each of scheduleTree_");
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    SdscTensor tensor;
    tensor.path = element(body.path_of("scheduleTree_"), i);
    read_label(sdsc, labels[i], element(body.path_of("labeledDs_"), i), i, classes, tensor);
    read_node(sdsc, nodes[i], i, tensor);
    sdsc.tensors.push_back(std::move(tensor));
  }
}

}  // namespace svp::compiler
