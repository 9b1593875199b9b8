module capstan/upstream

go 1.26.0
