// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/sdsc.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "host_driver/compiler/sdsc_members.hpp"
#include "shared/dl16.hpp"

namespace svp::compiler {

namespace {

using nlohmann::json;

constexpr std::int64_t kLeastMaskId = -1;

// The only member, which is named by the operation.
struct Only {
  std::string name;
  const json& value;
  std::string path;
};
Only only_member(const json& value, const std::string& path) {
  StrictObject object(value, path);
  if (value.size() != 1) throw BadMember{path, "has " + std::to_string(value.size()) + " members, not one"};
  const std::string& name = value.begin().key();
  return {name, value.begin().value(), object.path_of(name)};
}

// {"name_": "n", "mb_": 64, …, "paddingSizes_": {…}}. Names without their last '_'.
void read_extents(StrictObject& body, Sdsc& sdsc) {
  const json& value = body.member("N_");
  StrictObject object(value, body.path_of("N_"));
  ignore(object, {"name_"});
  for (const auto& [key, number] : value.items()) {
    if (key == "name_" || key == "paddingSizes_") continue;
    if (!key.ends_with('_') || key.size() < 2 || key.size() > kMostNameBytes) {
      object.refuse(key.c_str(), "is no name of a dimension");
    }
    const std::uint64_t extent = object.number(key.c_str(), kMostExtent);
    if (extent == 0) object.refuse(key.c_str(), "is 0");
    if (sdsc.dimensions.size() == kMostDimensions) object.refuse(key.c_str(), "is one dimension too many");
    sdsc.dimensions.push_back(
        {.name = key.substr(0, key.size() - 1), .extent = static_cast<std::uint32_t>(extent), .slices = 1});
  }
  if (sdsc.dimensions.empty()) throw BadMember{object.path(), "has no dimension"};
}

// An entry for each dimension that mark_dynamic names; "symbolicDimInfo_": {"mb": {"maxSize_": 128, …}}.
void refuse_dynamic(StrictObject& object, const char* key) {
  if (!object.has(key) || object.member(key).empty()) return;
  std::string names;
  if (const json& sizes = object.member(key); sizes.is_object()) {
    for (const auto& [name, size] : sizes.items()) names += (names.empty() ? "" : ", ") + name;
  }
  object.refuse(key, "the size of dimension " + names + " is one that only the launch knows: " + std::string(kNoSizes));
}

// What one core computes: ss_, and the same once more in el_.
void read_stage(StrictObject& body, Sdsc& sdsc) {
  StrictObject stages(body.member("dataStageParam_"), body.path_of("dataStageParam_"));
  StrictObject first(stages.member("0"), stages.path_of("0"));
  stages.finish();
  StrictObject stage(first.member("ss_"), first.path_of("ss_"));
  ignore(first, {"el_"});
  first.finish();
  ignore(stage, {"name_", "maxSymbolicVolume_", "coreletSplit_", "rowSplit_", "peSfpSplit_"});
  if (!stage.member("symbolicDimInfo_").is_object()) stage.refuse("symbolicDimInfo_", "is no object of sizes");
  refuse_dynamic(stage, "symbolicDimInfo_");
  for (Dimension& dimension : sdsc.dimensions) {
    const std::string key = dimension.name + "_";
    dimension.per_core = static_cast<std::uint32_t>(stage.number(key.c_str(), kMostExtent));
    if (std::uint64_t{dimension.per_core} * dimension.slices == dimension.extent) continue;
    stage.refuse(key.c_str(), "is " + std::to_string(dimension.per_core) + ", and " + std::to_string(dimension.slices) +
                                  " slices of it are not the " + std::to_string(dimension.extent) + " of N_");
  }
  // What N_ says of windows, once more, or what one core has of it.
  if (!stage.member("paddingSizes_").is_object()) stage.refuse("paddingSizes_", "is no object");
  stage.finish();
}

// {"out": [[100, 28]]}.
void read_masks(StrictObject& body, Sdsc& sdsc) {
  const json& value = body.member("coordinateMasking_");
  StrictObject object(value, body.path_of("coordinateMasking_"));
  for (const auto& [name, ranges] : value.items()) {
    const std::string path = object.path_of(name);
    const std::uint8_t dimension = dimension_of(sdsc, name, path);
    if (!ranges.is_array()) throw BadMember{path, "is no list"};
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const json& range = ranges[i];
      const bool pair =
          range.is_array() && range.size() == 2 && range[0].is_number_unsigned() && range[1].is_number_unsigned();
      const std::uint64_t extent = sdsc.dimensions[dimension].extent;
      if (!pair || range[0].get<std::uint64_t>() > extent ||
          range[1].get<std::uint64_t>() > extent - range[0].get<std::uint64_t>()) {
        throw BadMember{element(path, i), "is no [start, count] inside of the dimension"};
      }
      if (range[1] != 0)
        sdsc.masks.push_back({dimension, range[0].get<std::uint32_t>(), range[1].get<std::uint32_t>()});
    }
  }
  (void)integer(body, "maskingConstId_", kLeastMaskId, kMostNameBytes);
}

// A number in the format that it is said to have.
float constant_of(std::uint32_t bits, bool single) {
  if (single) return std::bit_cast<float>(bits);
  return wire::fp32_from_dl16(static_cast<std::uint16_t>(bits));
}

void read_constant(const json& value, const std::string& path, Sdsc& sdsc) {
  StrictObject object(value, path);
  const std::string name = object.text("name_", kMostNameBytes);
  const std::string format = object.text("dataFormat_", kMostNameBytes);
  if (format != "IEEE_FP32" && format != "SEN169_FP16")
    object.refuse("dataFormat_", "is none of IEEE_FP32, SEN169_FP16");
  StrictObject data(object.member("data_"), object.path_of("data_"));
  object.finish();
  ignore(data, {"dim_prop_func", "dim_prop_attr"});
  StrictObject numbers(data.member("data_"), data.path_of("data_"));
  data.finish();
  const json& list = numbers.list("[0, 0, 0]", 1);
  numbers.finish();
  if (list.size() != 1 || !list[0].is_number_unsigned() || list[0].get<std::uint64_t>() > UINT32_MAX) {
    numbers.refuse("[0, 0, 0]", "is not one number of 32 bits");
  }
  if (!sdsc.constants.emplace(name, constant_of(list[0].get<std::uint32_t>(), format == "IEEE_FP32")).second) {
    object.refuse("name_", "is that of another constant, too");
  }
}

// The text "{}", or {"0": {…}, …}.
void read_constants(StrictObject& body, Sdsc& sdsc) {
  const json& value = body.member("constantInfo_");
  if (value == "{}") return;
  StrictObject object(value, body.path_of("constantInfo_"));
  for (const auto& [key, constant] : value.items()) read_constant(constant, object.path_of(key), sdsc);
}

// ["Tensor0-idx0", …]: numbers of tensors.
std::vector<std::uint8_t> read_operands(const Sdsc& sdsc, StrictObject& compute, const char* key) {
  const json& names = compute.list(key, kMostTensors);
  std::vector<std::uint8_t> result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t tensor = 0;
    while (tensor < sdsc.tensors.size() && names[i] != sdsc.tensors[tensor].name + "-idx" + std::to_string(tensor)) {
      ++tensor;
    }
    if (tensor == sdsc.tensors.size()) throw BadMember{element(compute.path_of(key), i), "names no tensor"};
    result.push_back(static_cast<std::uint8_t>(tensor));
  }
  return result;
}

void read_computation(StrictObject& body, Sdsc& sdsc) {
  const json& computations = body.list("computeOp_", 1);
  if (computations.size() != 1) body.refuse("computeOp_", "is not one operation");
  StrictObject compute(computations[0], element(body.path_of("computeOp_"), 0));
  ignore(compute, {"exUnit", "attributes_", "location"});
  const std::string name = compute.text("opFuncName", kMostNameBytes);
  const auto op = op_func_of(name);
  if (!op) compute.refuse("opFuncName", "is an operation that this compiler does not know: " + json(name).dump());
  sdsc.op = *op;
  const auto outputs = read_operands(sdsc, compute, "outputLabeledDs");
  if (outputs.size() != 1) compute.refuse("outputLabeledDs", "is not one tensor");
  sdsc.output = outputs[0];
  sdsc.inputs = read_operands(sdsc, compute, "inputLabeledDs");
  std::erase(sdsc.inputs, sdsc.output);  // reductions name it once more
  if (compute.has("indirectAccessIndexLabeledDs")) {
    sdsc.indices = read_operands(sdsc, compute, "indirectAccessIndexLabeledDs");
  }
  compute.finish();
}

void read_body(const Only& body_of, Sdsc& sdsc) {
  StrictObject body(body_of.value, body_of.path);
  sdsc.body_path = body_of.path;
  ignore(body, {"numCoreletsUsed_", "coreIdsUsed_", "pdsRelation_", "dimToSymbolMapping_"});
  if (body.number("numCoresUsed_", kMostCores) != sdsc.cores) body.refuse("numCoresUsed_", "is another number outside");
  read_stage(body, sdsc);
  read_windows(body, sdsc);
  read_masks(body, sdsc);
  read_constants(body, sdsc);
  read_tensors(body, sdsc);
  read_computation(body, sdsc);
  (void)body.member("N_");
  body.finish();
}

// numWkSlicesPerDim_, and which slice each core has.
void read_division(StrictObject& outer, Sdsc& sdsc) {
  sdsc.cores = static_cast<std::uint32_t>(outer.number("numCoresUsed_", kMostCores));
  const auto slices =
      by_dimension(sdsc, outer.member("numWkSlicesPerDim_"), outer.path_of("numWkSlicesPerDim_"), kMostCores);
  std::uint64_t product = 1;
  for (std::size_t d = 0; d < sdsc.dimensions.size(); ++d) {
    sdsc.dimensions[d].slices = std::max(slices[d], 1u);
    product *= sdsc.dimensions[d].slices;
  }
  if (sdsc.cores == 0 || product != sdsc.cores) {
    outer.refuse("numCoresUsed_", "is " + std::to_string(sdsc.cores) + ", and the slices of all dimensions are " +
                                      std::to_string(product));
  }
  sdsc.slice = by_core(sdsc, outer.member("coreIdToWkSlice_"), outer.path_of("coreIdToWkSlice_"), slices);
  for (std::uint32_t core = 1; core < sdsc.cores; ++core) {
    const auto same = std::ranges::find(sdsc.slice.begin(), sdsc.slice.begin() + core, sdsc.slice[core]);
    if (same == sdsc.slice.begin() + core) continue;
    outer.refuse("coreIdToWkSlice_", "gives core " + std::to_string(core) + " the part of the work that core " +
                                         std::to_string(same - sdsc.slice.begin()) + " has");
  }
}

void read_sdsc(const json& root, Sdsc& sdsc) {
  const Only outer_of = only_member(root, "");
  sdsc.name = outer_of.name;
  StrictObject outer(outer_of.value, outer_of.path);
  ignore(outer, {"debug_handle_", "sdscFoldProps_", "sdscFolds_", "coreFoldProp_", "coreletFoldProp_", "coreIdToDsc_",
                 "coreIdToDscSchedule", "datadscs_"});
  const json& bodies = outer.list("dscs_", 1);
  if (bodies.size() != 1) outer.refuse("dscs_", "is not one operation");
  const Only body = only_member(bodies[0], element(outer.path_of("dscs_"), 0));
  StrictObject extents(body.value, body.path);
  refuse_dynamic(extents, "dimToSymbolMapping_");  // before the others: it names the dimension
  for (const char* key : {"inputSymbolsAndTags_", "symbolDefinitions_", "dimToSymbolMappingOpcodeCorrection_"}) {
    if (outer.has(key) && !outer.member(key).empty()) {
      outer.refuse(key, "has sizes that only the launch knows: " + std::string(kNoSizes));
    }
  }
  read_extents(extents, sdsc);
  read_division(outer, sdsc);
  outer.finish();
  read_body(body, sdsc);
}

}  // namespace

Sdsc parse_sdsc(std::string_view text, const std::string& file) {
  Sdsc sdsc;
  sdsc.file = file;
  try {
    read_sdsc(parse_strict(text, kMostSdscBytes, ""), sdsc);
  } catch (const BadMember& bad) {
    const SourcePlace place{.file = file, .line = 0, .path = bad.path};
    if (!bad.what.ends_with(kNoSizes)) refuse(place, bad.what);
    refuse(place, bad.what, kStaticShapes);
  }
  return sdsc;
}

}  // namespace svp::compiler
