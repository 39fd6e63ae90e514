// SPDX-License-Identifier: Apache-2.0
#include "tests/support/bundle_builder.hpp"

#include <algorithm>
#include <stdexcept>

namespace test {

using nlohmann::json;

namespace {

constexpr std::int64_t kStick = 128;

std::uint32_t word_of(const std::string& format) {
  if (format == "IEEE_FP32" || format == "SENUINT32") return 4;
  return format == "SEN143_FP8" ? 1 : 2;
}

using Slices = std::map<std::string, std::uint32_t>;

std::uint32_t part(const Slices& slices, const std::string& dimension) {
  const auto found = slices.find(dimension);
  return found == slices.end() ? 1 : found->second;
}
std::uint32_t part(const BundleOperation& operation, const std::string& dimension) {
  return part(operation.slices, dimension);
}

std::uint32_t extent(const BundleOperation& operation, const std::string& dimension) {
  return std::ranges::find(operation.extents, dimension, &std::pair<std::string, std::uint32_t>::first)->second;
}

// Which slice of each dimension a core has: the first dimension changes fastest.
Slices slices_of_core(const BundleOperation& operation, const Slices& slices, std::uint32_t core) {
  Slices result;
  for (const auto& [name, size] : operation.extents) {
    result[name] = core % part(slices, name);
    core /= part(slices, name);
  }
  return result;
}
Slices slices_of_core(const BundleOperation& operation, std::uint32_t core) {
  return slices_of_core(operation, operation.slices, core);
}

// Bytes from the tensor's begin to the part of a core.
std::int64_t offset_of_core(const BundleOperation& operation, const BundleTensor& tensor, std::uint32_t core) {
  const auto slices = slices_of_core(operation, core);
  std::int64_t step = kStick, offset = 0;
  for (const std::string& dimension : tensor.order) {
    if (tensor.scale.contains(dimension)) continue;
    const std::int64_t per = dimension == tensor.stick ? kStick / word_of(tensor.format) : 1;
    const auto gap = tensor.gap.contains(dimension) ? tensor.gap.at(dimension) : 0;
    const std::int64_t elements = extent(operation, dimension);
    offset += step * (elements / part(operation, dimension) / per) * slices.at(dimension);
    step *= (elements + gap + per - 1) / per;
  }
  return offset;
}

json node_of(const BundleOperation& operation, const BundleTensor& tensor, std::size_t number, std::uint32_t cores,
             const std::vector<std::int64_t>& starts) {
  const std::string name = "allocate-Tensor" + std::to_string(number) + (tensor.base.empty() ? "_lx" : "_hbm");
  const Slices& owners = tensor.owners.empty() ? operation.slices : tensor.owners;
  json data, info, gaps, of_cores = json::object();
  for (std::uint32_t core = 0; core < cores; ++core) {
    data["[" + std::to_string(core) + ", 0, 0]"] = std::to_string(starts[core]);
    if (!tensor.owners.empty()) of_cores[std::to_string(core)] = slices_of_core(operation, owners, core);
  }
  for (const auto& [dimension, size] : operation.extents) {
    if (!std::ranges::count(tensor.order, dimension)) continue;
    const std::uint32_t parts = tensor.scale.contains(dimension) ? 1 : part(owners, dimension);
    info[dimension] = {
        {"spatial", 3},
        {"temporal", 0},
        {"elemArr", 1},
        {"padding", "nopad"},
        {"folds",
         {{"dim_prop_func", json::array()}, {"dim_prop_attr", {{{"factor_", parts}, {"label_", "core_fold"}}}}}}};
  }
  for (const auto& [dimension, gap] : tensor.gap) gaps[dimension] = {{"-1", std::to_string(gap)}};
  json node{
      {"nodeType_", "allocate"},
      {"name_", name},
      {"prev_", ""},
      {"ldsIdx_", number},
      {"component_", tensor.base.empty() ? "lx" : "hbm"},
      {"layoutDimOrder_", tensor.order},
      {"maxDimSizes_", std::vector<int>(tensor.order.size(), -1)},
      {"indirectAllocType_", tensor.index ? "index_tensor" : (tensor.indirect ? "value_tensor" : "no_indirection")},
      {"startAddressCoreCorelet_",
       {{"dim_prop_func", json::array()}, {"dim_prop_attr", json::array()}, {"data_", data}}},
      {"coordinates_", {{"coordInfo", info}, {"coreIdToWkSlice_", of_cores}}}};
  if (!gaps.is_null()) node["backGapCore_"] = gaps;
  for (const std::string& dimension : tensor.windowed) node["padding_"][dimension] = "padded_fullspan_wunneeded";
  return node;
}

json constants_of(const BundleOperation& operation) {
  if (operation.constants.empty()) return "{}";
  json result;
  for (const auto& [name, code] : operation.constants) {
    result[std::to_string(result.size())] = {
        {"name_", name},
        {"dataFormat_", "SEN169_FP16"},
        {"data_",
         {{"dim_prop_func", json::array()}, {"dim_prop_attr", json::array()}, {"data_", {{"[0, 0, 0]", {code}}}}}}};
  }
  return result;
}

json windows_of(const BundleOperation& operation) {
  json result = json::object();
  for (const auto& [dimension, window] : operation.windows) {
    result[dimension] = {{"padFront_", 0},
                         {"padBack_", 0},
                         {"totalSize_", window.elements},
                         {"stride_", window.stride},
                         {"dilation_", window.dilation},
                         {"windowDim_", window.taps}};
  }
  return result;
}

json stage_of(const BundleOperation& operation) {
  json stage{{"name_", "core"},
             {"symbolicDimInfo_", json::object()},
             {"maxSymbolicVolume_", json::object()},
             {"coreletSplit_", json::object()},
             {"rowSplit_", json::object()},
             {"peSfpSplit_", json::object()},
             {"paddingSizes_", windows_of(operation)}};
  for (const auto& [name, size] : operation.extents) stage[name + "_"] = size / part(operation, name);
  return stage;
}

json computation_of(const BundleOperation& operation) {
  json inputs = json::array(), indices = json::array();
  for (std::size_t i = 0; i + 1 < operation.tensors.size(); ++i) {
    const std::string name = "Tensor" + std::to_string(i) + "-idx" + std::to_string(i);
    (operation.tensors[i].index ? indices : inputs).push_back(name);
  }
  const std::string last = std::to_string(operation.tensors.size() - 1);
  json result{
      {"exUnit", "sfp"},     {"opFuncName", operation.op}, {"attributes_", json::object()},
      {"location", "Inner"}, {"inputLabeledDs", inputs},   {"outputLabeledDs", {"Tensor" + last + "-idx" + last}}};
  if (!indices.empty()) result["indirectAccessIndexLabeledDs"] = indices;
  return result;
}

}  // namespace

BundleBuilder::BundleBuilder(unsigned arguments, std::uint64_t pool_bytes)
    : arguments_(arguments), pool_bytes_(pool_bytes) {}

void BundleBuilder::begin_loop(const std::string& variable, std::uint32_t count) {
  const std::string bound = "%loop_bound_" + std::to_string(names_++);
  constants_.push_back(bound + " = arith.constant " + std::to_string(count) + " : index");
  body_.push_back("scf.for " + variable + " = %c0 to " + bound + " step %c1 {");
  loops_.push_back(variable);
}

void BundleBuilder::end_loop() {
  body_.emplace_back("}");
  loops_.pop_back();
}

// Of a value: base + offset, and what loops add.
std::int64_t BundleBuilder::symbol(const BundleTensor& tensor, std::int64_t offset) {
  std::string value = "%" + tensor.base;
  const std::string number = std::to_string(names_++);
  if (offset != 0) {
    constants_.push_back("%offset_" + number + " = arith.constant " + std::to_string(offset) + " : index");
    constants_.push_back("%sum_" + number + " = arith.addi " + value + ", %offset_" + number + " : index");
    value = "%sum_" + number;
  }
  if (!tensor.loops.empty()) {
    std::string dimensions, terms, variables;
    for (const auto& [variable, bytes] : tensor.loops) {
      const std::string d = "d" + std::to_string(std::ranges::count(variables, '%'));
      dimensions += (dimensions.empty() ? "" : ", ") + d;
      variables += (variables.empty() ? "" : ", ") + variable;
      terms += " + " + std::to_string(bytes) + "*" + d;
    }
    maps_.push_back("#map_" + number + " = affine_map<(" + dimensions + ")[s0] -> (s0" + terms + ")>");
    body_.push_back("%addr_" + number + " = affine.apply #map_" + number + "(" + variables + ")[" + value + "]");
    value = "%addr_" + number;
  }
  values_.push_back(value);
  ids_.push_back(std::to_string(--last_id_));
  return last_id_;
}

void BundleBuilder::add(const BundleOperation& operation) {
  std::uint32_t cores = 1;
  json n{{"name_", "n"}}, slices, of_cores, classes, nodes = json::array(), labels = json::array(),
                                                     masks = json::object();
  for (const auto& [name, size] : operation.extents) {
    n[name + "_"] = size;
    slices[name] = part(operation, name);
    cores *= part(operation, name);
  }
  for (std::uint32_t core = 0; core < cores; ++core) of_cores[std::to_string(core)] = slices_of_core(operation, core);
  if (!operation.windows.empty()) n["paddingSizes_"] = windows_of(operation);
  for (const auto& [name, range] : operation.masks) masks[name] = {{range.first, range.second}};
  values_.clear();
  ids_.clear();
  for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
    const BundleTensor& tensor = operation.tensors[i];
    std::vector<std::int64_t> starts;
    starts.reserve(cores);
    for (std::uint32_t core = 0; core < cores; ++core) {
      starts.push_back(tensor.base.empty() ? tensor.offset
                                           : symbol(tensor, tensor.offset + offset_of_core(operation, tensor, core)));
    }
    const std::string label = "CLASS" + std::to_string(i), name = "Tensor" + std::to_string(i);
    classes[label] = {{"layoutDimOrder_", tensor.order},
                      {"stickDimOrder_", {tensor.stick}},
                      {"stickSize_", {128 / word_of(tensor.format)}}};
    json scale = json::array();
    for (const std::string& dimension : tensor.order) {
      scale.push_back(tensor.scale.contains(dimension) ? tensor.scale.at(dimension) : 1);
    }
    labels.push_back({{"ldsIdx_", i},
                      {"dsName_", name},
                      {"dsType_", label},
                      {"scale_", scale},
                      {"wordLength", word_of(tensor.format)},
                      {"dataFormat_", tensor.format},
                      {"memOrg_", json::object()}});
    nodes.push_back(node_of(operation, tensor, i, cores, starts));
  }
  const std::string number = std::to_string(files_.size()), file = "sdsc_" + number + ".json";
  const json body{{"numCoresUsed_", cores},
                  {"numCoreletsUsed_", 1},
                  {"coreIdsUsed_", json::array()},
                  {"N_", n},
                  {"coordinateMasking_", masks},
                  {"maskingConstId_", operation.masks.empty() ? -1 : 0},
                  {"dataStageParam_", {{"0", {{"ss_", stage_of(operation)}, {"el_", stage_of(operation)}}}}},
                  {"primaryDsInfo_", classes},
                  {"scheduleTree_", nodes},
                  {"labeledDs_", labels},
                  {"constantInfo_", constants_of(operation)},
                  {"computeOp_", json::array({computation_of(operation)})}};
  files_[file] = {{number + "_" + operation.op,
                   {{"debug_handle_", nullptr},
                    {"numCoresUsed_", cores},
                    {"numWkSlicesPerDim_", slices},
                    {"coreIdToWkSlice_", of_cores},
                    {"dscs_", json::array({json{{operation.op, body}}})}}}};
  std::string values, ids;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values += (i == 0 ? "" : ", ") + values_[i];
    ids += (i == 0 ? "" : ", ") + ids_[i];
  }
  body_.push_back("sdscbundle.sdsc_execute (" + values + ") {sdsc_filename=\"" + file + "\", \"symbol_ids\"=[" + ids +
                  "]}");
}

std::string BundleBuilder::text() const {
  std::string text, parameters;
  for (const std::string& map : maps_) text += map + "\n";
  for (unsigned i = 0; i < arguments_; ++i) {
    parameters += (i == 0 ? "%arg_" : ", %arg_") + std::to_string(i) + "_base_addr: !sdscbundle.input_arg<index>";
  }
  text += "module {\n\tfunc.func @sdsc_bundle(" + parameters + ") {\n";
  if (pool_bytes_ != 0) {
    text += "\t\t%pool = sdscbundle.device_mem_allocate " + std::to_string(pool_bytes_) + " bytes : index\n";
  }
  for (unsigned i = 0; i < arguments_; ++i) {
    const std::string name = "%arg_" + std::to_string(i);
    text.append("\t\t").append(name).append(" = sdscbundle.input_arg_extract value from ").append(name);
    text += "_base_addr : !sdscbundle.input_arg<index> -> index\n";
  }
  text += "\t\t%c0 = arith.constant 0 : index\n\t\t%c1 = arith.constant 1 : index\n";
  for (const auto* lines : {&constants_, &body_}) {
    for (const std::string& line : *lines) text += "\t\t" + line + "\n";
  }
  return text + "\t\treturn\n\t}\n}\n";
}

std::string BundleBuilder::read(const std::string& name) const {
  if (name == "bundle.mlir") return text();
  const auto found = files_.find(name);
  if (found == files_.end()) throw std::out_of_range("no file " + name);
  return found->second.dump();
}

}  // namespace test
