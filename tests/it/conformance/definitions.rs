//! Statements 131-146: CustomResourceDefinitions and what they promise.
