module tollgate

go 1.21
