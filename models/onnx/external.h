// Constants whose data lie in files of their own, beside the model.
#pragma once

#include <map>
#include <string>

#include "models/onnx/model.h"
#include "models/weights/mapped_file.h"

namespace tilewright::onnx {

// The files beside a model that hold constants of it, mapped. Outlives the use of the constants.
class ExternalData {
 public:
  // Gives the constants of the model, which was read from `model.path`, their data. Where a file is
  // not there they stay without: their shapes are enough for most. Throws FileError with the path for
  // a place that is not in the model's folder or below, and for one that does not hold as many bytes
  // as the constant has.
  explicit ExternalData(Model& model);

  // How many constants of the model each file has that is not there, by its name in the model.
  const std::map<std::string, int>& missing() const { return missing_; }

 private:
  void load(const std::string& model_path, Tensor& tensor);

  std::map<std::string, weights::MappedFile> files_;  // by location
  std::map<std::string, int> missing_;
};

}  // namespace tilewright::onnx
