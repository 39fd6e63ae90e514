// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/launch_form.hpp"

#include <algorithm>
#include <utility>

namespace svp {

namespace {

// A step of a model launches a few kernels in turn; more are made again, which is correct all the same.
constexpr std::size_t kRemembered = 8;

struct RememberedForms {
  std::array<std::shared_ptr<const LaunchForm>, kRemembered> form;
  std::size_t last = 0;  // the one that was used last
};

RememberedForms& forms_of_this_thread() {
  static thread_local RememberedForms forms;
  return forms;
}

}  // namespace

bool LaunchForm::fits(const Job& job, std::span<const Argument> arguments, bool tiled_launch_allowed) const {
  if (kernel_serial != job.binary()->serial() || allow_tiled_launch != tiled_launch_allowed) return false;
  if (!std::ranges::equal(compiled, job.job_plan().compute()->expected_input_shapes)) return false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (argument.dtype != dtype[i] || !(argument.shape == shape[i]) || argument.stride != stride[i]) return false;
  }
  return true;
}

std::shared_ptr<const LaunchForm> remembered_form(const Job& job, std::span<const Argument> arguments,
                                                  bool allow_tiled_launch) {
  RememberedForms& forms = forms_of_this_thread();
  for (std::size_t i = 0; i < kRemembered; ++i) {
    const std::size_t at = (forms.last + i) % kRemembered;
    const auto& form = forms.form[at];
    if (form == nullptr || !form->fits(job, arguments, allow_tiled_launch)) continue;
    forms.last = at;
    return form;
  }
  return nullptr;
}

std::shared_ptr<const LaunchForm> remember_form(std::shared_ptr<LaunchForm> form, const Job& job,
                                                std::span<const Argument> arguments, bool allow_tiled_launch) {
  form->kernel_serial = job.binary()->serial();
  form->allow_tiled_launch = allow_tiled_launch;
  form->compiled = job.job_plan().compute()->expected_input_shapes;
  for (const Argument& argument : arguments) {
    form->dtype.push_back(argument.dtype);
    form->stride.push_back(argument.stride);
  }
  RememberedForms& forms = forms_of_this_thread();
  // The search goes up from the last one, so the place below it was used longest ago.
  forms.last = (forms.last + kRemembered - 1) % kRemembered;
  return forms.form[forms.last] = std::move(form);
}

}  // namespace svp
