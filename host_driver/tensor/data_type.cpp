// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/data_type.hpp"

#include <string>

namespace spyre::inline v0 {

std::string_view name(DataType type) {
  switch (type) {
    case DataType::Float16: return "float16";
    case DataType::BFloat16: return "bfloat16";
    case DataType::Float32: return "float32";
    case DataType::Float64: return "float64";
    case DataType::Float8E4m3fn: return "float8_e4m3fn";
    case DataType::Float8E5m2: return "float8_e5m2";
    case DataType::Int8: return "int8";
    case DataType::Uint8: return "uint8";
    case DataType::Int16: return "int16";
    case DataType::Int32: return "int32";
    case DataType::Int64: return "int64";
    case DataType::Bool: return "bool";
  }
  return "unknown data type";
}

std::string_view name(DeviceType type) {
  switch (type) {
    case DeviceType::Dl16: return "SEN169_FP16";
    case DeviceType::Fp32: return "IEEE_FP32";
    case DeviceType::Int32: return "IEEE_INT32";
    case DeviceType::Int16: return "SENINT16";
    case DeviceType::Int8: return "SENINT8";
    case DeviceType::Uint32: return "SENUINT32";
    case DeviceType::Fp8E4m3: return "SEN143_FP8";
    case DeviceType::Fp8E5m2: return "SEN152_FP8";
  }
  return "unknown device type";
}

std::size_t item_bytes(DataType type) {
  switch (type) {
    case DataType::Float64:
    case DataType::Int64: return 8;
    case DataType::Float32:
    case DataType::Int32: return 4;
    case DataType::Float16:
    case DataType::BFloat16:
    case DataType::Int16: return 2;
    case DataType::Float8E4m3fn:
    case DataType::Float8E5m2:
    case DataType::Int8:
    case DataType::Uint8:
    case DataType::Bool: return 1;
  }
  return 1;
}

std::size_t item_bytes(DeviceType type) {
  switch (type) {
    case DeviceType::Fp32:
    case DeviceType::Int32:
    case DeviceType::Uint32: return 4;
    case DeviceType::Dl16:
    case DeviceType::Int16: return 2;
    case DeviceType::Int8:
    case DeviceType::Fp8E4m3:
    case DeviceType::Fp8E5m2: return 1;
  }
  return 1;
}

}  // namespace spyre::inline v0

namespace svp {

Expected<DeviceType> default_device_type(DataType type) {
  switch (type) {
    case DataType::Float16:
    case DataType::BFloat16:
    case DataType::Bool: return DeviceType::Dl16;
    case DataType::Float32: return DeviceType::Fp32;
    case DataType::Int64:
    case DataType::Int32: return DeviceType::Int32;
    case DataType::Int16: return DeviceType::Int16;
    case DataType::Int8: return DeviceType::Int8;
    case DataType::Uint8: return DeviceType::Uint32;
    case DataType::Float8E4m3fn: return DeviceType::Fp8E4m3;
    case DataType::Float8E5m2: return DeviceType::Fp8E5m2;
    case DataType::Float64: break;
  }
  return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                   .source = "dtype",
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = true,
                                   .next_step = "convert the tensor to float32 or float16 first",
                                   .message = std::string(name(type)) + " has no format on the card"});
}

}  // namespace svp
