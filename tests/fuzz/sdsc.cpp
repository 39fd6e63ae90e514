// SPDX-License-Identifier: Apache-2.0
// An SDSC file: refused by InvalidPlan that names file and member, or compiled, as the only one of a bundle, into a
// program that the checker takes, or refused there by a message of the compiler's.
#include "host_driver/compiler/sdsc.hpp"

#include <set>
#include <string>

#include "host_driver/compiler/compile.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace svp::compiler;

constexpr const char* kFile = "sdsc_0.json";

// Each tensor in memory is an argument of its own; cores begin where the first one does.
std::string text_for(const Sdsc& sdsc) {
  std::string parameters, extracts, values, ids;
  std::set<std::int64_t> known;
  unsigned arguments = 0;
  for (const SdscTensor& tensor : sdsc.tensors) {
    if (tensor.memory == Memory::Lx) continue;
    const std::string number = std::to_string(arguments++);
    parameters += parameters.empty() ? "%p" : ", %p";
    parameters += number;
    parameters += ": !sdscbundle.input_arg<index>";
    for (const char* part : {"%a", " = sdscbundle.input_arg_extract value from %p"})
      extracts.append(part).append(number);
    extracts += " : index\n";
    for (const std::int64_t id : tensor.start) {
      if (!known.insert(id).second) continue;
      values += (values.empty() ? "%a" : ", %a") + number;
      ids += (ids.empty() ? "" : ", ") + std::to_string(id);
    }
  }
  return "module { func.func @sdsc_bundle(" + parameters + ") {\n" + extracts + "sdscbundle.sdsc_execute (" + values +
         ") {sdsc_filename=\"" + kFile + "\", symbol_ids=[" + ids + "]} return } }";
}

}  // namespace

void fuzz::run(Input input) {
  const std::string json(input.rest_as_text());
  try {
    const Sdsc sdsc = parse_sdsc(json, kFile);
    require(!sdsc.dimensions.empty() && sdsc.dimensions.size() <= kMostDimensions, "dimensions are bounded");
    require(sdsc.cores != 0 && sdsc.cores <= kMostCores && sdsc.slice.size() == sdsc.cores, "cores are bounded");
    require(sdsc.output < sdsc.tensors.size(), "there is an output");
    const std::string text = text_for(sdsc);
    (void)compile(read_bundle([&](const std::string& name) { return name == kFile ? json : text; }));
  } catch (const InvalidPlan& refused) {
    require(!refused.field().empty() && !refused.info().next_step.empty(), "a refusal names a place and the next step");
  }
}
