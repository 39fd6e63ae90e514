// SPDX-License-Identifier: Apache-2.0
// What a program names besides the classes of this folder: the driver's own types, under the namespace of the API.
#pragma once

#include "host_driver/base/error.hpp"
#include "host_driver/device/card_options.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/kernel.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "host_driver/runtime/stream_error.hpp"
#include "host_driver/tensor/data_type.hpp"
#include "host_driver/tensor/tensor_layout.hpp"

namespace spyre::inline v0 {

using svp::CardOptions;
using svp::CompiledKernel;
using svp::DataType;
using svp::describe;
using svp::DeviceType;
using svp::Error;
using svp::ErrorInfo;
using svp::ExecutionPlan;
using svp::InvalidArgument;
using svp::InvalidPlan;
using svp::Job;
using svp::JobPlan;
using svp::Kernel;
using svp::OutOfMemory;
using svp::RecoveryReport;
using svp::ResetLevel;
using svp::RuntimeOptions;
using svp::SpyreTensorLayout;
using svp::StreamError;
using svp::StreamPriority;
using svp::TilingError;
using svp::TimeoutError;
using svp::value_or_throw;

}  // namespace spyre::inline v0
